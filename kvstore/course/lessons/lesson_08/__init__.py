"""The room of lesson 08: waiting below saturation."""
