/* A shared object that is no strategy: it has no export function. */
int strategy_no_export_answer(void);
int strategy_no_export_answer(void)
{
	return 1;
}
