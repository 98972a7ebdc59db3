"""Translation as a service: HTTP, and a page to look into it."""
