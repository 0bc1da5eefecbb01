"""Logging in through an OpenID Connect provider: the code flow with PKCE, state and nonce."""
