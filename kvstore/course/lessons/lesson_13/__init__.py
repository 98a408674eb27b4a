"""The room of lesson 13: what it asks, its exercises, and the figures of several servers."""
