"""Times the builder beside kaldi-native-fbank with tf.io.TFRecordWriter, and prints ratios."""
