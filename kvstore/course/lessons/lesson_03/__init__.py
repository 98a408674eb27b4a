"""The room of lesson 03: what it asks, its exercises, and its experiments."""
