"""The room of lesson 14: what it asks, its exercises, and its experiments."""
