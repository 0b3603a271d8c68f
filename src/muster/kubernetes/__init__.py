"""Kubernetes: a client, caches of what an API server holds, and a cluster of our own to try things on (`dev`)."""
