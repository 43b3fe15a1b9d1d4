"""The companion job as a team owns it: its door and its container. What it does is `loadproof.bench`."""
