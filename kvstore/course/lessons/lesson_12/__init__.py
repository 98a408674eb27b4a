"""The room of lesson 12: what it asks, its exercises, and its experiments."""
