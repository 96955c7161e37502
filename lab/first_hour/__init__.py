"""The first hour of a newcomer as a run: the commands of the pages, in an empty venv, as they are printed."""
