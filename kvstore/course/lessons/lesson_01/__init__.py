"""The room of lesson 01: what it asks, its exercises, and its experiments."""
