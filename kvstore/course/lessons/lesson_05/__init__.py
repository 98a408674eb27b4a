"""The room of lesson 05: what it asks, its exercises, and its experiments."""
