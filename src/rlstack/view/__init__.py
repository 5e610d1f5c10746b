"""Robots and worlds in a browser, in three dimensions: live by viser's server, or as a page that replays them."""
