"""Code that all programs share: flags, error messages, progress, TensorFlow and the CPU.

program.run runs a program, console finds it by name, and progress_bar shows progress. config_flags makes
flags from dataclasses, and config_json reads and writes dataclasses as JSON. lazy_tensorflow imports
TensorFlow on first use (tensorflow_release checks its version), cpu counts cores, interrupts handles Ctrl-C,
urls recognises remote paths, and pages and fonts support the HTML pages and plots that programs write.
"""
