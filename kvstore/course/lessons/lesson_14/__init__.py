"""The room of lesson 14, which is taken after 07: waiting below saturation."""
