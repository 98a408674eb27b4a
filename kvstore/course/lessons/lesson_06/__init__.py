"""The room of lesson 06: what it asks, its exercises, and its experiments."""
