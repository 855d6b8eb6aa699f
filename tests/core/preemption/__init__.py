"""The search for victims, part by part."""
