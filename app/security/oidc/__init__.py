"""Login through an OpenID Connect provider: the code flow with PKCE, state and nonce.
No page: app/ui/access/ has it.
"""
