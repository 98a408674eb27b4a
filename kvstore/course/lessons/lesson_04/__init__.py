"""The room of lesson 04: what it asks, its exercises, and its experiments."""
