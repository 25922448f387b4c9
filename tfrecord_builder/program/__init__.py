"""What every program shares: flags, errors as sentences, progress, and the machine that it runs on.

program.run starts a program: config_flags makes flags of a dataclass, config_json its files, console and
progress_bar write to the terminal. lazy_tensorflow imports TensorFlow at first use (tensorflow_release
checks its version), cpu counts cores, interrupts handles Ctrl-C, urls tells stores from local paths, and
pages and fonts are for the HTML and the pictures that programs write.
"""
