"""Do the checkpoints' own templates and the vendors' own libraries agree with our renderer and parser?"""
