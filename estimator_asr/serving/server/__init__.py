"""Serves exported models over HTTP: TensorFlow Serving's REST API, OpenAI's transcriptions, and a web page.

A recording sent to /v1/audio/transcriptions passes through eleven modules to become a transcript:

    middleware          checks the token, the host and the number of open requests
    app                 finds the route
    openai_api          calls the modules below, and formats the response
    service             reads the body
    openai_request      parses the form
    uploads             decodes the recording
    transcripts/pauses  cuts it at pauses
    served_version      makes an item for each piece, and runs the model on a batch
    batching            queues the items and forms batches
    saved_model/recogniser  runs the graph
    transcripts/captions    joins the pieces

A :predict request passes through eight modules: tensorflow_api and tensorflow_request replace openai_api and
openai_request, and uploads, pauses and captions are not needed. /v1/align uses align_api instead
of openai_api, with alignment/texts. /v1/stream uses live_api, live_messages and transcripts/live. api_errors
defines the errors sent to clients, versions replaces the served version when a newer one is exported, limits
defines the flags of serve, and running opens the socket.
"""
