"""A Kubernetes cluster of our own on this machine: real etcd, API server and controllers, hollow nodes.

For tests, for benchmarks, and for people who try Muster on a laptop (`muster dev-cluster up`).
"""
