"""An HTTP server for exported models: TensorFlow Serving's REST API, OpenAI's transcription API, a web page.

A :predict request passes through middleware, app, tensorflow_api, service, tensorflow_request, item_queue,
batching, versions, and saved_model/recogniser, which runs the graph. An audio/transcriptions request passes
through openai_api and openai_request instead; uploads decodes the recording, which transcripts/pauses cuts
before it is queued, and transcripts/captions formats the response.
"""
