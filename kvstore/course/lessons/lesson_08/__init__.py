"""The room of lesson 08: what it asks, its exercises, and its experiments."""
