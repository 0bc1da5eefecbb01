"""The FastAPI application: the doors of KiteMQ, and what people do through them."""
