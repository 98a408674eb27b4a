"""The room of lesson 10: what it asks, its exercises, and its experiments."""
