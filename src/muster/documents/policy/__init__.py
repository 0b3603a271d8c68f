"""What a policy can say, in scenarios and in the configuration of a server."""
