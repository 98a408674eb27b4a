"""The room of lesson 15: what it asks, its exercises, and its experiments."""
