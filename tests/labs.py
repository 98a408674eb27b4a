"""`course.py lab` as a program, in the environment that runs the tests and from any checkout."""

LAB = """
import course, pathlib, sys
course.course_python = lambda: pathlib.Path(sys.executable)
sys.exit(course.main(["lab", *sys.argv[1:]]))
"""
