"""An HTTP server for exported models: TensorFlow Serving's REST API, OpenAI's transcriptions, and a page.

The way of :predict: middleware, app, tensorflow_api, service, tensorflow_request, item_queue, batching,
versions, and saved_model/recogniser, which runs the graph.
The way of audio/transcriptions: openai_api and openai_request instead, uploads before the queue (decodes, and
cuts by transcripts/pauses), and transcripts/captions for the answer.
"""
