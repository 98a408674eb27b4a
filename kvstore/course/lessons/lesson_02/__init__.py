"""The room of lesson 02: what it asks, its exercises, and its experiments."""
