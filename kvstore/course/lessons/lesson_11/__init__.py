"""The room of lesson 11: what it asks, its exercises, and its experiments."""
