"""The stages: one folder per stage, free of Prefect except each folder's task.py."""
