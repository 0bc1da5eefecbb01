"""A long life of a broker: the same for every story that is told of one."""


def live_long(story):
    """Start, and take 400 steps of a story, with a kill or a clean stop after every fifty."""
    story.start()
    for number in range(400):
        story.step()
        if number % 100 == 50:
            story.disk.kill()
            story.start()
        elif number % 100 == 99:
            story.broker.stop()
            story.start()
