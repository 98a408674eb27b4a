"""The room of lesson 00: what it asks, its exercises, and its experiments."""
