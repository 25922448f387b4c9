from tfrecord_builder.verification import duplicate_index


def test_the_first_place_of_an_id_is_told():
    seen = duplicate_index.Sightings()
    assert seen.see_utterance("u1", "a.tfrecord", 0) is None
    assert seen.see_utterance("u2", "a.tfrecord", 1) is None
    assert seen.see_utterance("u1", "b.tfrecord", 7) == ("a.tfrecord", 0)
    assert seen.see_utterance("u1", "b.tfrecord", 8) == ("a.tfrecord", 0)


def test_sentences_count_once_a_split():
    seen = duplicate_index.Sightings()
    for split, sentence in [("train", "一"), ("train", "一"), ("train", "二"), ("dev", "二"), ("dev", "三")]:
        seen.see_sentence(split, sentence)
    assert (seen.num_sentences("train"), seen.num_sentences("dev"), seen.num_sentences("test")) == (2, 2, 0)
    assert seen.num_shared("train", "dev") == seen.num_shared("dev", "train") == 1
