"""An HTTP server for exported models: TensorFlow Serving's REST API, OpenAI's transcription API, a web page.

A recording that is sent to /v1/audio/transcriptions becomes a transcript in eleven files:

    middleware          checks the token, the host and the number of open requests
    app                 finds the route
    openai_api          leads through the rest, and formats the response
    service             reads the body
    openai_request      parses the form
    uploads             decodes the recording
    transcripts/pauses  cuts it at pauses
    served_version      makes an item for each piece, and runs the model on a batch
    batching            queues the items and forms batches
    saved_model/recogniser  runs the graph
    transcripts/captions    joins the pieces

A :predict request has eight: tensorflow_api and tensorflow_request in place of openai_api and
openai_request, and no uploads, pauses or captions. /v1/stream has live_api, live_messages and
transcripts/live. api_errors are the refusals, versions replaces the served version when a newer one is
exported, limits are the flags of serve, and running opens the socket.
"""
