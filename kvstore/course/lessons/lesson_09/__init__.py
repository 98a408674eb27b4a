"""The room of lesson 09: what it asks, its exercises, and its experiments."""
