"""An HTTP server for exported models: TensorFlow Serving's REST API, OpenAI's transcriptions, and a page."""
