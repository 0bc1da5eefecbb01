"""What every REST operation shares: its declaration, OpenAPI, the API's page, the hot path.
No resource: nothing here knows topics, groups or messages.
"""
