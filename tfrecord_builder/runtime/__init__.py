"""The runtime environment: TensorFlow and its releases, CPU, fonts, Ctrl-C, HTML templates."""
