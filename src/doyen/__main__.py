from doyen.cli import main

main()
