"""What queries keep on the hosts where they run: files that nobody else can write, and that nobody needs."""
