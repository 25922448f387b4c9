"""The page about a build: what people look at before they train."""
