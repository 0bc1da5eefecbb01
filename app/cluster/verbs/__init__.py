"""The verbs of `app.messaging` as a cluster answers them, by what they are about."""
