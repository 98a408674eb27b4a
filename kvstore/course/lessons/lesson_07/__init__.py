"""The room of lesson 07: what it asks, its exercises, and its experiments."""
