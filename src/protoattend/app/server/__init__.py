"""The server: the explorer's API and page, and the Open Inference Protocol V2."""
