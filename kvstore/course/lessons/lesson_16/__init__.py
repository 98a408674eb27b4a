"""The room of lesson 16: what it asks, its exercises, and its experiments."""
