from __future__ import annotations

import io

import numpy as np
import soundfile
import tensorflow as tf

from estimator_asr.monitoring import summaries


def test_values_made_outside_a_graph_are_written_at_their_step(tmp_path):
    with tf.Graph().as_default():
        summaries.write_values(str(tmp_path), [summaries.text_value("a", "**b**")], 12)
    (file,) = tmp_path.glob("events.*")
    *_, event = tf.compat.v1.train.summary_iterator(str(file))
    (value,) = event.summary.value
    assert (event.step, value.tag, value.metadata.plugin_data.plugin_name) == (12, "a", "text")
    assert tf.make_ndarray(value.tensor).item() == b"**b**"


def test_a_picture_knows_its_size():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        png = session.run(tf.io.encode_png(np.zeros([5, 9, 3], np.uint8)))
    image = summaries.image_value("a", png).image
    assert (image.width, image.height, image.encoded_image_string) == (9, 5, png)


def test_a_sound_knows_its_length():
    file = io.BytesIO()
    soundfile.write(file, np.zeros(100), 8000, format="WAV", subtype="PCM_16")
    sound = summaries.audio_value("a", file.getvalue(), 8000).audio
    assert (sound.length_frames, sound.sample_rate, sound.num_channels) == (100, 8000, 1)
