"""The OpenAPI document of what is served."""
