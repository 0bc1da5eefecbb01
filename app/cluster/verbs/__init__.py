"""The verbs of `app.messaging` as a cluster answers them, by what they are about.
No protocol belongs here: what is asked of a broker, and how, is in the folder above.
"""
